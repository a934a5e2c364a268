"""An agent that orders coal with a person's authority: python order_agent.py"""

import os

from deputize.agent import Agent, Denied, Verifier

shop = os.environ["SHOP_URL"]
verifier = Verifier(os.environ["VERIFIER_ID"], os.environ["WORKSPACE_ID"])
agent = Agent(
    os.environ["BASE_URL"], os.environ["AGENT_KEY"], {shop: verifier}, agent_id=os.environ["AGENT_ID"]
)

try:
    response = agent.fetch(f"{shop}/orders", scope="data:read", body={"item": "coal", "amount": 3})
    print(response.status, response.json()["item"])
except Denied as error:
    print(type(error).__name__, error.code)
