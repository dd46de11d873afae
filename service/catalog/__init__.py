"""What is known of GPUs, models and engines: bundled data, its integrity, and names to pinned versions."""
