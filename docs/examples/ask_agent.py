"""An agent that asks a person before it orders coal: python ask_agent.py"""

import os

from deputize.agent import Agent, Ask, Denied, Question, Verifier


def show(question: Question) -> None:
    print("Please decide:", question.url or question.task_id, flush=True)


shop = os.environ["SHOP_URL"]
verifier = Verifier(os.environ["VERIFIER_ID"], os.environ["WORKSPACE_ID"])
agent = Agent(
    os.environ["BASE_URL"],
    os.environ["AGENT_KEY"],
    {shop: verifier},
    agent_id=os.environ["AGENT_ID"],
    on_ask=show,
)

try:
    ask = Ask("Order coal for the winter", wait=60)
    order = {"item": "coal", "amount": 3}
    response = agent.fetch(f"{shop}/orders", scope="data:read", body=order, ask=ask)
    print(response.status, response.json()["item"])
except Denied as error:
    print(type(error).__name__, error.code, error.ask_fault)
