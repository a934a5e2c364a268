/** Starts what all test files share; replaced as parts arrive. */
export default function setup(): void {}
