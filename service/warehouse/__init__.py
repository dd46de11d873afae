"""Request logs and tables, reduced to a workload by an engine that reads them: on the caller's machine, by command."""
