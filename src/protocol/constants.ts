/** Version of the protocol that this implementation speaks (wire-format §1). */
export const PROTOCOL_VERSION = 1;
