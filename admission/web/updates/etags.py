"""ETags of answers: who has an answer already gets 304 as long as nothing but its age differs."""

import hashlib
import re
from typing import Final

from aiohttp import web

from admission.web.http import json_answer

#: When an answer was made and when the cluster was so: keys only, for a quote inside of a string has a backslash.
_AGE: Final = re.compile(rb'"(?:now|asOf)":(?:"[^"]*"|null),?')
_LONGEST: Final = 1024


def tag_of(body: bytes) -> str:
    """The weak ETag of a JSON answer: the same for answers that differ in their ``now`` and ``asOf`` only."""
    return f'W/"{hashlib.blake2b(_AGE.sub(b"", body), digest_size=12).hexdigest()}"'


def tagged(request: web.Request, body: bytes) -> web.Response:
    """The answer with its ETag, or 304 if the client has it: ``If-None-Match`` names that tag."""
    tag = tag_of(body)
    given = request.headers.get("If-None-Match", "")[:_LONGEST]
    known = {each.strip() for each in given.split(",")}
    answer = web.Response(status=304) if tag in known else json_answer(body)
    answer.headers["ETag"] = tag
    # Of this user only, and to be asked for again each time.
    answer.headers["Cache-Control"] = "private, no-cache"
    return answer
