"""The live view of `holdfast watch`. Only this package needs Textual."""
