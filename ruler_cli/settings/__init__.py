"""Command line, variables and ruler.toml in, frozen settings out."""
