"""The campaign of faults: malformed inputs by kind, kills, full disks, read-only places and races, counted."""
