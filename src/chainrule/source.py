"""Where in the user's file: positions of bytecode as file, line and columns."""

