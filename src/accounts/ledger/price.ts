/** Price of one decision in micro-USD (specification §8: 0.002 USD per verification). */
export const VERIFICATION_PRICE_MICRO_USD = 2_000;
