/** A signature, and whether strict verification accepts it. Byte arrays are in hex. */
export type SignatureCase = {
  name: string;
  class: string;
  valid: boolean;
  public_key: string;
  message: string;
  signature: string;
};
