"""Text out of what was handed in.

`extractor` tells types apart and reads text formats itself. What a file can be made to hurt its reader with
(PDF, DOCX, HTML, images) is read by `readers` in the processes of `sandbox`.
"""
