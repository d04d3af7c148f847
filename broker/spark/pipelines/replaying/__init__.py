"""What a replay chooses, writes, and keeps account of."""
