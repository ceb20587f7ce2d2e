package softroce

import (
	"math/rand/v2"
	"net/url"
	"strings"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// Shape is a link that a device's packets go by, one way, before they reach its sockets:
// they leave one after the other at Rate, are Delay later at the other end, and some are
// lost. The zero value is no such link.
//
// A packet's wire bytes are those from the Base Transport Header to the ICRC, its UDP and
// IP headers, and 38 of Ethernet: preamble and gap 20, header 14, FCS 4.
type Shape struct {
	Rate  units.Rate `yaml:"shape" range:"(0,)" zero:"no limit"`                       // of wire bytes
	Delay units.Time `yaml:"delay" range:"[0,10s]"`                                    // from the end of sending on
	Loss  float64    `yaml:"loss" range:"[0,1]" as:"a probability" unit:"%" eg:"0.1%"` // that a packet is lost
	Seed  uint64     `yaml:"seed" eg:"7"`                                              // of the losses
}

// ethernetBytes is what a frame takes on the link besides its IP packet.
const ethernetBytes = 20 + 14 + 4

const (
	// lineDepth is how many packets a link has under way at most. More stay with the
	// queue pairs until some have arrived.
	lineDepth = 1 << 14
	// maxLate is how much of the time that the processor was elsewhere a link with
	// packets to send makes up for.
	maxLate = 20 * units.Millisecond
	// maxRest bounds how long packets that are due wait so that several leave in one
	// system call.
	maxRest = 50 * units.Microsecond
)

func (s *Shape) shapes() bool { return s.Rate > 0 || s.Delay > 0 || s.Loss > 0 }

var ofShape = field.Of[Shape]("softroce: Shape")

// parseQuery is url.ParseQuery, but that a per cent sign at the end of a value is one.
func parseQuery(query string) (url.Values, error) {
	fields := strings.Split(query, "&")
	for i, f := range fields {
		if strings.HasSuffix(f, "%") {
			fields[i] = f + "25"
		}
	}
	return url.ParseQuery(strings.Join(fields, "&"))
}

// shaper is a link as a device sends over it. The device's lock guards it.
type shaper struct {
	Shape
	rests   bool // it waits for several packets to leave at once
	headers int  // of IP and UDP; telemetry's are counted where packets have them
	rng     *rand.Rand

	free    units.Time // when the link has sent what it took
	backlog bool       // it had more to take when it stopped
	rest    units.Time // until when nothing leaves

	line     []*underWay // a ring whose length is a power of two
	first, n int
	lost     uint64
	piece    [1][]byte
}

// underWay is a packet on a link, without its ICRC.
type underWay struct {
	at      units.Time // it arrives
	sending units.Time // how long the link sends it
	route   endpoint.Route
	n       int
	carried carried
	carries bool
	data    [endpoint.MaxPacket]byte
}

// newShaper returns the link of a device, nil for none.
func newShaper(s Shape, ipv6, rests bool) *shaper {
	if !s.shapes() {
		return nil
	}
	headers := roce.IPv4Bytes + roce.UDPBytes
	if ipv6 {
		headers = roce.IPv6Bytes + roce.UDPBytes
	}
	return &shaper{Shape: s, rests: rests, headers: headers, rng: rand.New(rand.NewPCG(s.Seed, 0x736861706564)), line: make([]*underWay, 64)}
}

// next is when something leaves, or can be taken if some is pending.
func (s *shaper) next(pending bool) units.Time {
	at := units.Never
	if s.n > 0 {
		at = s.head().at
	}
	if pending && s.n < lineDepth {
		at = min(at, s.free)
	}
	return max(at, s.rest)
}

func (s *shaper) head() *underWay { return s.line[s.first] }

// fill packs what arrives, and has the link take what it can from the endpoint.
func (s *shaper) fill(b *batch, e *endpoint.Endpoint, now units.Time, to sender) {
	b.reset(to)
	if now < s.rest {
		return
	}
	sending := s.arrive(b, now, to) + s.take(b, e, now, to)
	if s.rests {
		s.rest = now + min(2*sending, maxRest)
	}
}

// arrive packs what arrives by now, and returns how long the link sent it.
func (s *shaper) arrive(b *batch, now units.Time, to sender) (sending units.Time) {
	for s.n > 0 && s.head().at <= now && b.room() {
		p := s.head()
		s.first = (s.first + 1) & (len(s.line) - 1)
		s.n--
		sending += p.sending
		copy(b.buf[b.used:], p.data[:roce.BTHBytes])
		s.piece[0] = p.data[roce.BTHBytes : p.n-roce.ICRCBytes]
		o := endpoint.Outgoing{To: &p.route, Header: roce.BTHBytes, Len: p.n, Pieces: s.piece[:]}
		if p.carries {
			o.Carried = p.carried.Carried
		}
		b.pack(&o, to)
	}
	return sending
}

// take takes the packets whose sending has begun by now, and packs those of them that
// arrive by now, of which it returns how long the link sent them. A link that had more to
// send than time goes on where it was: that nobody looked at it meanwhile does not idle it.
func (s *shaper) take(b *batch, e *endpoint.Endpoint, now units.Time, to sender) (sending units.Time) {
	e.Begin()
	if s.backlog {
		s.free = max(s.free, now-maxLate)
	} else {
		s.free = max(s.free, now)
	}
	s.backlog = false
	for s.n < lineDepth {
		if s.free > now || !b.room() {
			s.backlog = e.Pending()
			break
		}
		buf := b.buf[b.used : b.used+endpoint.MaxPacket]
		o := e.NextOutgoing(now, buf)
		if o == nil {
			break
		}
		wire := o.Len + s.headers + ethernetBytes + len(o.INT)
		spent := units.Time(0)
		if s.Rate > 0 {
			spent = s.Rate.Serialize(units.Bytes(wire))
		}
		s.free += spent
		at := s.free + s.Delay
		switch {
		case s.Loss > 0 && s.rng.Float64() < s.Loss:
			s.lost++
		case s.n == 0 && at <= now:
			b.pack(o, to)
			sending += spent
		default:
			p := s.slot()
			s.n++
			p.at, p.sending, p.route, p.n = at, spent, *o.To, o.Len
			if p.carries = o.Collects || len(o.INT) > 0; p.carries {
				p.carried.set(&o.Carried)
			}
			clear(p.data[o.Len-roce.ICRCBytes-3 : o.Len]) // the pad, where there is one
			copy(p.data[:o.Header], buf)
			put(p.data[:o.Len], o, nil, 0)
		}
	}
	return sending
}

// setBack sets back the clock by which it is called.
func (s *shaper) setBack(by units.Time) {
	s.free, s.rest = s.free.SetBack(by), s.rest.SetBack(by)
	for i := range s.n {
		p := s.line[(s.first+i)&(len(s.line)-1)]
		p.at = p.at.SetBack(by)
	}
}

// slot returns the place of the next packet that is taken.
func (s *shaper) slot() *underWay {
	if s.n == len(s.line) {
		line := make([]*underWay, 2*len(s.line))
		copy(line[copy(line, s.line[s.first:]):], s.line[:s.first])
		s.line, s.first = line, 0
	}
	i := (s.first + s.n) & (len(s.line) - 1)
	if s.line[i] == nil {
		s.line[i] = new(underWay)
	}
	return s.line[i]
}
