"""Images, by OCR."""
