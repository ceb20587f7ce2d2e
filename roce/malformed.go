package roce

import "errors"

// ErrNotRoCE is returned for a frame that holds no datagram for UDP port 4791.
var ErrNotRoCE = errors.New("roce: not a RoCEv2 packet")

// Malformed says why bytes are not a valid RoCEv2 packet or MAD. It is an error,
// comparable with ==, and below NumMalformed, so that drivers can index an array of
// counters by it.
type Malformed uint8

// Why a packet is dropped. IBA 9.6.1 requires that all of them are dropped
// silently.
const (
	_                   Malformed = iota
	BadIPHeader                   // IPv4 options, or a header or length that can't be
	BadIPChecksum                 // IPv4 header checksum
	IPFragment                    // a fragment: RoCEv2 is never fragmented
	BadUDPLength                  // UDP and IP lengths disagree
	Cut                           // fewer bytes than the headers state
	BadPacketLength               // BTH to ICRC is no multiple of four bytes
	TooShort                      // no room for the headers of the opcode
	BadTransportVersion           // BTH TVer is not 0
	UnknownOpcode                 // reserved, or of a transport service that is not RC, UC, UD or CNP
	BadPad                        // more pad than payload
	UnexpectedPayload             // payload on an opcode that has none
	BadMADLength                  // a MAD that has not 256 bytes
	BadMADHeader                  // base version, class version or method of no CM message
	NotCM                         // a MAD of another class
	UnknownCMMessage              // attribute of none of the CM messages known here
	BadIPCM                       // RDMA IP CM private data of unknown version, or too short
	NumMalformed                  // how many there are
)

var malformedNames = [NumMalformed]struct{ key, text string }{
	{"", ""},
	{"ip_header", "IP header or length that can't be"},
	{"ip_checksum", "wrong IPv4 header checksum"},
	{"ip_fragment", "IP fragment"},
	{"udp_length", "UDP and IP lengths disagree"},
	{"cut", "fewer bytes than the headers state"},
	{"packet_length", "length from BTH to ICRC is no multiple of four"},
	{"too_short", "no room for the headers of the opcode"},
	{"transport_version", "BTH version is not 0"},
	{"opcode", "unknown opcode"},
	{"pad", "more pad than payload"},
	{"unexpected_payload", "payload on an opcode that has none"},
	{"mad_length", "management datagram that has not 256 bytes"},
	{"mad_header", "management datagram header of no CM message"},
	{"mad_class", "management datagram of another class than communication management"},
	{"cm_message", "unknown CM message"},
	{"ip_cm", "RDMA IP CM private data of unknown version or too short"},
}

// Error describes the fault in words.
func (m Malformed) Error() string { return "roce: " + malformedNames[min(m, NumMalformed-1)].text }

// Key returns a short name for counters, such as "udp_length".
func (m Malformed) Key() string { return malformedNames[min(m, NumMalformed-1)].key }
