// Package match finds from stamped packets when the requests of a reliable
// connection left and when they were acknowledged. It is plain state: the caller
// reports what was posted, left, arrived and completed, in any order. It reads no
// clock, and is not safe for concurrent use.
//
// # PSNs
//
// Packet sequence numbers are assigned in the order of posting, from the first one
// configured on the queue pair (IBA volume 1, 9.7.2): a Send or Write takes one a
// packet, a READ one for each packet of its response, an atomic one, a local
// operation none. So the PSNs of a request are known as it is posted, and a
// packet's PSN names its request, modulo 2^24; at most 2^23 are outstanding.
//
// # What acknowledges
//
// An acknowledgement stands for all requests up to its PSN, a NAK (RNR too) for
// those before its PSN (9.7.5.1.2), a response for those before its own request as
// well. Only its last response completes a READ, and only its response an atomic:
// an acknowledgement beyond one that was not answered means that the answer was
// lost, and does not count here, as it does not at the requester. The first packet
// that acknowledges a request counts; duplicates do not.
//
// # Retransmissions
//
// The first transmission of a packet counts. An acknowledgement after a
// retransmission may be for either transmission (Karn and Partridge, SIGCOMM 1987).
// A round trip measured from the retransmission could be too short, and a rate
// engine would speed up after a loss. Measured from the first transmission it can
// only be too long: it includes the repair, which is how a NIC's own timestamps
// show a loss. Such a request is marked Retransmitted, so that a caller that wants
// Karn's rule can leave the sample out. A request that is sent again after its
// acknowledgement may be unacknowledged at its requester (the packet was dropped
// behind the hook). If another acknowledgement arrives before its completion, that
// one counts.
package match
