package capture

import (
	"math"
	"net/netip"
	"time"

	"github.com/sluice-rdma/sluice/units"
)

// Report describes a capture. Its JSON names carry the units.
type Report struct {
	Format    string  `json:"format"` // pcap or pcapng
	Gzipped   bool    `json:"gzipped"`
	StartTime string  `json:"start_time,omitempty"` // of the first frame that has a time, RFC 3339, UTC
	DurationS float64 `json:"duration_s"`           // to the last

	Frames           int64 `json:"frames"`
	FrameBytes       int64 `json:"frame_bytes"`
	OtherFrames      int64 `json:"other_frames"`       // not for UDP port 4791
	UnsupportedLinks int64 `json:"unsupported_frames"` // of a link type that is not read here

	// RoCE is the packets with headers that can be. It is the sum of the four
	// counts of ICRCs. A frame that stands for several packets, since a sender left
	// their segmentation to its interface or a receiver put them together, is split,
	// and each is counted; where it can't be split, it counts once, as UncheckedOffload, as
	// does each packet whose identification in IPv4 is lost.
	RoCE             int64 `json:"roce_packets"`
	GoodICRCs        int64 `json:"good_icrcs"`
	BadICRCs         int64 `json:"bad_icrcs"`
	UncheckedICRC    int64 `json:"unchecked_icrcs"` // cut off by the capture's snap length
	UncheckedOffload int64 `json:"unchecked_offload_icrcs"`
	SplitFrames      int64 `json:"split_frames"` // that stood for several packets

	Malformed map[string]int64 `json:"malformed_packets"` // by roce.Malformed.Key
	Opcodes   map[string]int64 `json:"opcodes"`           // of packets whose ICRC is not bad
	Faults    []Fault          `json:"faults"`            // the first maxFaults bad or malformed packets

	Connections []*Connection `json:"connections"` // in the order of their first packets
}

// maxFaults bounds a report's list of faults.
const maxFaults = 100

// Fault is one packet that is wrong.
type Fault struct {
	Frame int    `json:"frame"` // its number, from 1 on
	What  string `json:"what"`
}

// Connection is the traffic between two queue pairs, or what one sent to the
// other if the other way was not seen or can't be told.
type Connection struct {
	Service    string    `json:"service"` // RC, UC, UD, or CNP if nothing else was seen
	A          Endpoint  `json:"a"`       // who asked for it by CM, or sent first
	B          Endpoint  `json:"b"`
	ServiceID  string    `json:"cm_service_id,omitempty"` // from the REQ that set it up, hexadecimal
	FirstFrame int       `json:"first_frame"`
	AToB       Direction `json:"a_to_b"`
	BToA       Direction `json:"b_to_a"`
}

// Endpoint is one end of a connection.
type Endpoint struct {
	IP netip.Addr `json:"ip"`
	QP *uint32    `json:"qp"` // null if no packet shows it
}

// Direction describes one end's packets to the other. Packets whose ICRC is bad count as
// such and nowhere else.
type Direction struct {
	Packets      int64 `json:"packets"`
	FrameBytes   int64 `json:"frame_bytes"`
	PayloadBytes int64 `json:"payload_bytes"` // of requests and READ responses, sent again or not
	BadICRCs     int64 `json:"bad_icrcs"`

	Messages Messages `json:"messages"`

	Acks    int64 `json:"acks"`
	NAKs    NAKs  `json:"naks"`
	RNRNAKs int64 `json:"rnr_naks"`

	// Requests, READ responses and atomic responses whose PSN was seen before.
	RetransmittedPackets int64 `json:"retransmitted_packets"`
	RetransmittedBytes   int64 `json:"retransmitted_payload_bytes"`
	// The same kinds with a PSN that is lower than one before, but new.
	OutOfOrderPackets int64 `json:"out_of_order_packets"`
	PSNRestarts       int64 `json:"psn_restarts"`

	CNPs         int64 `json:"cnps"`
	ECNCEPackets int64 `json:"ecn_ce_packets"` // marked by a switch on the way to the capture

	CM  map[string]int64 `json:"cm_messages,omitempty"`
	RTT *RTT             `json:"rtt"` // null without a sample
}

// Messages counts messages by kind: SENDs and WRITEs at their last packet, READs
// and atomics at their request; packets sent again do not count.
type Messages struct {
	Send        int64 `json:"send"`
	SendImm     int64 `json:"send_with_imm"`
	SendInv     int64 `json:"send_with_inv"`
	Write       int64 `json:"write"`
	WriteImm    int64 `json:"write_with_imm"`
	Read        int64 `json:"read"`
	CompareSwap int64 `json:"compare_swap"`
	FetchAdd    int64 `json:"fetch_add"`
}

// NAKs counts NAKs by reason (IBA 9.7.5.2.4).
type NAKs struct {
	Sequence  int64 `json:"sequence_error"`
	Invalid   int64 `json:"invalid_request"`
	Access    int64 `json:"remote_access_error"`
	Operation int64 `json:"remote_operational_error"`
	Other     int64 `json:"other"`
}

// RTT is the time from requests that ask for an acknowledgement, READs and atomics
// included, to the response with the same PSN, at the place of the capture. Requests
// that were sent again give no sample (Karn's rule).
type RTT struct {
	Samples int64   `json:"samples"`
	MinUS   float64 `json:"min_us"`
	AvgUS   float64 `json:"avg_us"`
	MaxUS   float64 `json:"max_us"`

	sum, low, high units.Time
}

func (r *RTT) add(t units.Time) {
	if r.Samples == 0 {
		r.low = t
	}
	r.Samples++
	r.low, r.high = min(r.low, t), max(r.high, t)
	if r.sum > math.MaxInt64-t {
		r.sum = math.MaxInt64
	} else {
		r.sum += t
	}
	r.MinUS, r.MaxUS = r.low.Microseconds(), r.high.Microseconds()
	r.AvgUS = (r.sum / units.Time(r.Samples)).Microseconds()
}

// OnlyQP keeps the connections that have a queue pair with the number at one of their
// ends. The counts of the whole capture stay.
func (r *Report) OnlyQP(qp uint32) {
	kept := r.Connections[:0]
	for _, c := range r.Connections {
		for _, end := range []Endpoint{c.A, c.B} {
			if end.QP != nil && *end.QP == qp {
				kept = append(kept, c)
				break
			}
		}
	}
	r.Connections = kept
}

// fault notes a packet that is wrong.
func (r *Report) fault(frame int, what string) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, Fault{frame, what})
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
