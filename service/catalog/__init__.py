"""What is known of GPUs, models, engines and workloads: bundled data, its integrity, and names to pinned versions."""
