"""Sans-I/O codecs, one module per wire. No socket, no clock, no policy lives here."""
