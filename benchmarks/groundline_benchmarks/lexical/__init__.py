"""The keyword engines that a server offers, side by side."""
