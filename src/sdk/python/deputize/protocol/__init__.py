"""The parts of the wire format that an application needs."""
