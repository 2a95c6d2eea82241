"""What a split step needs, and when it does what: told before it runs, and measured."""
