"""A schema with most of what is kept."""

PERSON = {
    "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Person", "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 8, "description": "The name"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "weight": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        "kind": {"enum": ["red", "grey", "arctic"]},
        "home": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1,
                 "maxItems": 3},
        "wild": {"type": ["boolean", "null"], "default": True}},
    "required": ["name", "age", "kind", "home", "tags"], "additionalProperties": False,
    "$defs": {"place": {"type": "object", "properties": {"city": {"type": "string",
                                                                  "maxLength": 6}},
                        "required": ["city"], "additionalProperties": False}}}
