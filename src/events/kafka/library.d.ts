/** Types for a part of the library that comes without types. */
declare module "kafkajs/src/network/requestQueue/index.js" {
  type Queue = {
    pending: unknown[];
    throttledUntil: number;
    throttleCheckTimeoutId: NodeJS.Timeout | null;
    checkPendingRequests(): void;
    scheduleCheckPendingRequests(): void;
  };
  const RequestQueue: { prototype: Queue };
  export default RequestQueue;
}
