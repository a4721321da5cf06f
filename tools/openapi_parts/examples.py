"""Examples of requests for the OpenAPI document. A test sends each to a running suite."""

from collections.abc import Mapping
from typing import Any, Final

_QUESTION: Final = "What torque closes the hatch screws of the DN-4?"
_CONVERSATION: Final = {
    "query": "In which order?",
    "chatHistory": [
        {"role": "user", "content": _QUESTION},
        {"role": "assistant", "content": "Close the four screws crosswise with 1.8 Nm [1]."},
    ],
}

EXAMPLES: Final[Mapping[str, Mapping[str, dict[str, Any]]]] = {
    "Chat": {
        "A question": {"query": _QUESTION},
        "A question that follows on others": _CONVERSATION,
        "A question about some documents, with a retry made safe": {
            "query": _QUESTION,
            "collectionIds": ["examples"],
            "filter": {"$source_type": "file"},
            "requestId": "9b2f7c1e",
        },
    },
    "Answer": {
        "A question": {"query": _QUESTION},
        "A question that follows on others": _CONVERSATION,
    },
    "Search": {
        "Both searches, the best passages": {"query": "hatch screws torque"},
        "Keyword search alone, more passages with their neighbours": {
            "query": "SIM card",
            "options": {
                "retrieval": {"mode": "RETRIEVAL_MODE_KEYWORD", "adjacentChunks": 1},
                "rerank": {"topK": 20},
            },
        },
    },
    "QueryTables": {
        "A question": {"question": "Which models cost less than 300 EUR?"},
        "A plan": {
            "plan": {
                "documentId": "123e4567-e89b-12d3-a456-426614174000",
                "tableIndex": 0,
                "conditions": [{"column": 2, "operator": "TABLE_OPERATOR_LESS", "values": ["300 EUR"]}],
                "function": "TABLE_FUNCTION_SUM",
                "functionColumn": 2,
                "groupBy": 1,
            }
        },
    },
    "UpdateThread": {
        "Another title": {"title": "The DN-4's hatch"},
        "Before the others in lists": {"isPinned": True},
    },
    "RateAnswer": {
        "An answer that tells of the past": {
            "feedback": {
                "rating": "RATING_BAD",
                "problem": "PROBLEM_OUTDATED",
                "comment": "That was the rule of 2024.",
            }
        },
        "Taken back": {},
    },
    "Verify": {
        "Two claims": {"text": "The hatch screws of the DN-4 take 1.8 Nm. They are made of brass."},
        "A text against some documents": {
            "text": "- The hatch screws are closed crosswise.",
            "collectionIds": ["examples"],
            "filter": {"$source_type": "file"},
        },
    },
    "CreateSource": {
        "The Markdown files of a git repository, looked at once an hour": {
            "source": {
                "name": "handbook",
                "intervalSeconds": 3600,
                "includePaths": ["**.md"],
                "git": {"url": "https://git.example.com/handbook.git", "path": "docs"},
            }
        },
        "A feed with the pages that it links to": {
            "source": {
                "name": "news",
                "intervalSeconds": 900,
                "feed": {"url": "https://www.example.com/news/feed.xml", "linkedPages": True},
            }
        },
    },
    "UpdateSource": {
        "Every two hours": {"intervalSeconds": 7200},
        "Only when it is asked to": {"isPaused": True},
    },
    "SetLegalHold": {
        "The whole collection": {"reason": "Case 12/2026"},
        "Two of its documents": {
            "documentIds": ["5d0a9bd2-5c21-4a3f-9d3b-0e9d9f6a7a10", "b3f4c7a2-6f1e-4d2b-8a55-3c9e2f1d7b44"],
            "reason": "Case 12/2026",
        },
        "Released": {"reason": ""},
    },
    "CreateApiKey": {
        "For one application": {"name": "hr-app", "principals": ["group:hr"], "scopes": ["search", "chat"]},
    },
    "RevertJob": {
        "What it would do": {"dryRun": True},
        "With what was changed again since": {"overwrite": True},
    },
    "RestoreRevision": {"A retry made safe": {"requestId": "4be1d0c9"}},
    "RevertIndex": {"A retry made safe": {"requestId": "4be1d0c9"}},
    "RunSource": {"Read everything again": {"full": True}},
    "CreateCollection": {
        "A collection with the defaults": {"collectionId": "handbook", "name": "Employee handbook"},
        "German, for one group": {
            "collectionId": "handbuch",
            "settings": {"lexical": {"language": "german"}, "access": {"readers": ["group:staff"]}},
        },
    },
    "UpdateCollection": {
        "More passages for each answer": {"settings": {"rerank": {"topK": 12}}},
    },
    "ReindexCollection": {
        "Smaller chunks": {"settings": {"chunking": {"chunkSize": 1200, "chunkOverlap": 120}}},
        "Held back, to be compared with the one in use": {"hold": True, "keepPrevious": True},
    },
    "IngestDocuments": {
        "A text": {
            "documents": [
                {
                    "uri": "notes/2026-11.md",
                    "text": "# November\n\nThe gateway moved to port 8080.",
                    "metadata": {"year": 2026, "team": "platform"},
                }
            ]
        },
        "What a web site would bring in": {
            "crawl": {"startUrl": "https://docs.example.com/", "maxPages": 20},
            "dryRun": True,
        },
        "A record": {
            "documents": [
                {"uri": "product:17", "object": {"schema": "product", "properties": {"name": "DN-4"}}}
            ]
        },
    },
    "DeleteDocuments": {
        "Count what is older": {"filter": {"year": {"$lt": 2024}}, "dryRun": True},
    },
}
"""Bodies by RPC and title of the example."""
