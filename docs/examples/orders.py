"""An API that accepts orders and refunds with a person's authority: uvicorn orders:app"""

import os
from typing import Annotated

from fastapi import FastAPI, Request
from pydantic import BaseModel

from deputize.frameworks.fastapi import GuardMiddleware
from deputize.guard import Authority, Guard, Operation

guard = Guard(os.environ["BASE_URL"], os.environ["VERIFY_KEY"])
app = FastAPI()
app.add_middleware(GuardMiddleware)


class Order(BaseModel):
    item: str
    amount: float


@app.post("/orders")
async def place(
    order: Order, who: Annotated[Authority, guard("data:read", operation=True)]
) -> dict[str, object]:
    return {"item": order.item, "agent": who.agent_id, "person": who.human_id}


def refund_of(request: Request) -> Operation:
    return Operation(action="refund", resource_id=request.path_params["order"])


Refunder = Annotated[Authority, guard("payments:send", operation=refund_of)]


@app.post("/orders/{order}/refund")
def refund(order: str, body: Order, who: Refunder) -> dict[str, object]:
    return {"order": order, "amount": body.amount, "receipt": who.receipt_id}
