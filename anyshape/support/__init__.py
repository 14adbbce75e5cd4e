"""What every other room may use: errors, options, tracing and machine numbers."""
