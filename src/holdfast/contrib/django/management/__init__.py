"""Found by Django: see `commands`."""
