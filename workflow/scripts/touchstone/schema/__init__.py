"""What both sides read and write: it parses as Python 3.6 and imports only the standard library."""
