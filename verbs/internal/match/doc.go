// Package match tells from stamped packets when the requests of a reliable
// connection left and when they were acknowledged. It is plain state: told what
// was posted, what left, what arrived and what completed, in any mixture; it
// reads no clock, and is not safe for concurrent use.
//
// # PSNs
//
// Packet sequence numbers are given out in the order of posting, from the first
// one that the queue pair was told (IBA volume 1, 9.7.2): a Send or Write takes
// one a packet, a READ one for each packet of its response, an atomic one, a local
// operation none. So the PSNs of a request are known as it is posted, and a
// packet's PSN names its request, modulo 2^24; at most 2^23 are outstanding.
//
// # What acknowledges
//
// An acknowledgement stands for all requests up to its PSN, a NAK (RNR too) for
// those before its PSN (9.7.5.1.2), a response for those before its own request as
// well. Only its last response completes a READ, and only its response an
// atomic: an acknowledgement beyond one that was not answered tells the requester
// that the answer was lost, and counts for nothing here as it does there. The
// first packet that acknowledges a request counts; duplicates do not.
//
// # Retransmissions
//
// The first transmission of a packet counts. An acknowledgement that comes after
// a retransmission may be for either (Karn and Partridge, SIGCOMM 1987). Reckoned
// from the retransmission the round trip could come out shorter than it was, and a
// rate engine would speed up for a loss; reckoned from the first transmission it
// can only come out longer, and includes the repair, which is how a NIC's own
// time stamps show a loss. Such a request is marked Retransmitted, so that who
// wants Karn's rule can leave the sample out. What was acknowledged and is sent
// again was perhaps not acknowledged as far as its requester knows (the packet was
// dropped behind the hook): if another acknowledgement of it comes before its
// completion, that one counts.
package match
