import type { ReceiptAnswer } from "../../../audit/receipt_routes.ts";
import { page } from "../../core/page.ts";
import { receiptFileName } from "./receipt_card.ts";

/** A decision's receipt as a file: the very bytes that its hash is over. */
export const receiptFilePage = page<ReceiptAnswer>({
  id: "history_receipt",
  path: "/console/history/{receipt_id}/receipt",
  access: "onboarded",
  operations: ["get_receipt"],
  load: ({ call, params }) => call("get_receipt", { params }),
  file: (_, { receipt_id, canonical }) => ({
    name: receiptFileName(receipt_id),
    type: "application/json",
    content: canonical,
  }),
});
