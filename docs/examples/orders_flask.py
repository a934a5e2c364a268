"""An API that accepts orders with a person's authority: flask --app orders_flask run"""

import os

from flask import Flask

from deputize.frameworks.flask import guard_flask
from deputize.guard import Authority, Guard, Route

guard = Guard(os.environ["BASE_URL"], os.environ["VERIFY_KEY"])
app = Flask(__name__)


@app.post("/orders")
@guard_flask(guard, Route("data:read", operation=True))
def place(who: Authority) -> dict[str, object]:
    return {"item": who.payload["item"], "agent": who.agent_id, "person": who.human_id}
