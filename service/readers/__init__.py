"""Pure parsers of callers' own documents."""
