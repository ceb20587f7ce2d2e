// Package rc is the reliable-connection transport (IBA volume 1, chapter 9) as
// a plain state machine: one QP is the requester and the responder of one queue
// pair. The cycle-level NIC model and the user-space endpoint both drive it.
package rc
