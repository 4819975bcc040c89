"""What keeps a service running for months: room on the disk, old recordings, backups, and a look at what is unsafe."""
