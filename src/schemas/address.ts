/** Host names that never lead off this computer, as `URL` writes a host. */
const THIS_COMPUTER = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Whether data sent to this address stays private on the way: https, or http that does not leave this computer. */
export const keepsSecrets = ({ protocol, hostname }: URL): boolean =>
  protocol === "https:" || (protocol === "http:" && THIS_COMPUTER.test(hostname));
