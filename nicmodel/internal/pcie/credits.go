package pcie

import "github.com/sluice-rdma/sluice/units"

// postedCredits limit the NIC's writes before the root complex has worked off what
// came before: a header credit for each TLP, and a data credit for each 16 bytes of payload (PCIe
// 2.6.1). Writes get them in order, and give them back in order.
type postedCredits struct {
	most taken // of both; 0 is without bound
	used taken

	// What is out comes back at times that do not decrease: a ring of a power of two.
	ring    []taken
	head, n int
	last    units.Time // when the newest comes back
	lastBy  holder     // what it waits for until then
	waited  holder     // what held the credits that came back last
	given   units.Time // what came back until then is accounted for
	left    units.Time // when the newest write that waited for credits has left
}

// taken is a number of credits, until an instant.
type taken struct {
	headers, data int
	until         units.Time
	by            holder
}

// holder names the reason that holds credits longest.
type holder int

const (
	byHost holder = iota // the root complex itself
	byWalk               // the IOMMU
	byMemory
	byPeer // the peer device's link
	numHolders
)

const dataCredit = 16 // bytes

func dataCredits(bytes int) int { return (bytes + dataCredit - 1) / dataCredit }

func newPostedCredits(c *Config) postedCredits {
	p := postedCredits{most: taken{headers: c.PostedCredits, data: c.PostedData / dataCredit}}
	if p.bounded() {
		p.ring = make([]taken, 16)
	}
	return p
}

func (p *postedCredits) bounded() bool { return p.most.headers > 0 || p.most.data > 0 }

// fit reports whether the credits suffice at t, to which returned has been called.
func (p *postedCredits) fit(t units.Time, headers, data int) bool {
	return p.given <= t && p.fits(headers, data)
}

func (p *postedCredits) fits(headers, data int) bool {
	return (p.most.headers == 0 || p.used.headers+headers <= p.most.headers) &&
		(p.most.data == 0 || p.used.data+data <= p.most.data)
}

// returned takes back what has come back by t.
func (p *postedCredits) returned(t units.Time) {
	for p.n > 0 && p.ring[p.head].until <= t {
		p.takeBack()
	}
}

func (p *postedCredits) takeBack() {
	c := &p.ring[p.head]
	p.used.headers -= c.headers
	p.used.data -= c.data
	p.head = (p.head + 1) & (len(p.ring) - 1)
	p.n--
	p.given = max(p.given, c.until)
	p.waited = c.by
}

// next returns the instant, t or later, from which there is one for another TLP.
func (p *postedCredits) next(t units.Time) units.Time {
	p.returned(t)
	if p.fits(1, 1) {
		return max(t, p.given)
	}
	return max(t, p.ring[p.head].until)
}

// free returns the first instant, t or later, at which the credits suffice.
func (p *postedCredits) free(t units.Time, headers, data int) units.Time {
	p.returned(t)
	for !p.fits(headers, data) {
		p.takeBack()
	}
	return max(t, p.given)
}

// hold takes credits, for which there is room, until an instant; they come back no earlier than those before, unless
// relaxed.
func (p *postedCredits) hold(until units.Time, by holder, headers, data int, relaxed bool) {
	if p.n == len(p.ring) {
		p.grow()
	}
	p.used.headers += headers
	p.used.data += data
	at := p.n
	p.n++
	mask := len(p.ring) - 1
	if relaxed && until < p.last {
		for ; at > 0 && p.ring[(p.head+at-1)&mask].until > until; at-- {
			p.ring[(p.head+at)&mask] = p.ring[(p.head+at-1)&mask]
		}
		p.ring[(p.head+at)&mask] = taken{headers, data, until, by}
		return
	}
	if until > p.last {
		p.last, p.lastBy = until, by
	}
	p.ring[(p.head+at)&mask] = taken{headers, data, p.last, p.lastBy}
}

// grow makes room for more writes at a time. The ring begins small, as it is gone through
// all the time.
func (p *postedCredits) grow() {
	ring := make([]taken, 2*len(p.ring))
	for i := range p.n {
		ring[i] = p.ring[(p.head+i)&(len(p.ring)-1)]
	}
	p.ring, p.head = ring, 0
}
