"""What error messages propose in place of calls that are not traced."""
