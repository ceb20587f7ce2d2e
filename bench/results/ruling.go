package results

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/units"
)

// Places where an engine runs.
const (
	EngineInHost = "host" // in the shim
	EngineInNIC  = "nic"
	EngineNone   = "none" // no congestion control
)

// Ruling names what limited the queue pairs' sending: their engine, or something else.
// Shares are of the time in which queue pairs had requests under way, summed over them,
// from the end of the warm-up.
type Ruling struct {
	EngineIn string `json:"engine_in"` // EngineInHost and so on
	// EngineCuts is the number of times that an engine lowered its rate, below the
	// line rate, or its window.
	EngineCuts uint64 `json:"engine_cuts"`
	// EngineHeld is the share in which the engine's rate or window held a request
	// back. It is not known of reduced NICs.
	EngineHeld stats.Float `json:"engine_held_share"`
	// Of a shim: the bound on what a queue pair has with the NIC, and the shares in
	// which that bound alone held a request back, the host was late, something else
	// did, such as a fence, and in which the NIC had all that was posted.
	ShimOutstandingBytes int64       `json:"shim_outstanding_bytes"`
	ShimHeld             stats.Float `json:"shim_held_share"`
	HostHeld             stats.Float `json:"host_held_share"`
	OtherHeld            stats.Float `json:"other_held_share"`
	AllSent              stats.Float `json:"all_sent_share"`
	// RuledBy names what ruled if it was not the engine.
	RuledBy string `json:"ruled_by,omitempty"`
}

func newRuling() Ruling {
	u := stats.Unmeasured
	return Ruling{EngineHeld: u, ShimHeld: u, HostHeld: u, OtherHeld: u, AllSent: u}
}

// Outside lists what may rule outside the senders.
type Outside struct {
	Link string      // the busiest
	Busy stats.Float // its share of the time
	// PausedLink is the link into a host that this host's NIC paused most, and Paused the
	// share of the time.
	PausedLink string
	Paused     stats.Float
	// DropsAt is the host whose NIC dropped most packets for want of room, and Drops how many.
	DropsAt string
	Drops   uint64
	// Trouble comes before all else.
	Trouble *Trouble
}

// Explain sets RuledBy from the other figures and from o.
func (r *Ruling) Explain(o Outside) {
	if o.Trouble != nil {
		if s := o.Trouble.rules(); s != "" {
			r.RuledBy = s + "; " + r.engineDid()
			return
		}
	}
	r.RuledBy = r.ruledBy(&o)
	if o.Trouble != nil {
		if n := o.Trouble.Unfinished.never(); n > 0 {
			r.RuledBy = strings.TrimSuffix(fmt.Sprintf("%d of %d flows never could end, for want of a path; %s", n, o.Trouble.Unfinished.Of, r.RuledBy), "; ")
		}
	}
}

// ruledBy names what ruled, in the words of a line under the table; "" if the engine
// ruled: if it held more back than anything else.
func (r *Ruling) ruledBy(o *Outside) string {
	if r.EngineIn == EngineNone && !r.ShimHeld.Measured() || r.EngineIn == EngineInNIC && !r.EngineHeld.Measured() {
		if r.EngineCuts > 0 {
			return ""
		}
		return r.engineDid() + "; " + o.rules()
	}
	if !r.ShimHeld.Measured() {
		if r.EngineHeld >= 0.5 {
			return ""
		}
		return r.engineDid() + "; " + o.rules()
	}
	switch most := max(r.EngineHeld, r.ShimHeld, r.HostHeld, r.OtherHeld, r.AllSent); most {
	case r.EngineHeld:
		return ""
	case r.ShimHeld:
		line := fmt.Sprintf("the shim's window, %v, was full %s of the time; %s", units.Bytes(r.ShimOutstandingBytes), percentOf(float64(most)), r.engineDid())
		if o.Busy >= saturated || o.receiver() != "" {
			line += "; " + o.rules()
		}
		return line
	case r.HostHeld:
		return fmt.Sprintf("the host was late %s of the time; %s", percentOf(float64(most)), r.engineDid())
	case r.OtherHeld:
		return fmt.Sprintf("requests waited for those before them, by the verbs' own rules, %s of the time; %s", percentOf(float64(most)), r.engineDid())
	default:
		return fmt.Sprintf("the NIC had all that was posted %s of the time; %s; %s", percentOf(float64(most)), r.engineDid(), o.rules())
	}
}

// engineDid describes what the engine did.
func (r *Ruling) engineDid() string {
	switch {
	case r.EngineIn == EngineNone:
		return "there is no engine"
	case !r.acted():
		return "the engine never cut"
	case !r.EngineHeld.Measured():
		return fmt.Sprintf("the engine cut %d times", r.EngineCuts)
	case r.EngineCuts == 0:
		return fmt.Sprintf("the engine never cut, and held requests back %s of the time", percentOf(float64(r.EngineHeld)))
	}
	return fmt.Sprintf("the engine cut %d times and held requests back %s of the time", r.EngineCuts, percentOf(float64(r.EngineHeld)))
}

// rules names what rules where nothing at the sender holds requests back: a receiver
// that takes no more, a link that has no more to give, or the application.
func (o *Outside) rules() string {
	if s := o.receiver(); s != "" {
		return s
	}
	if o.Busy >= saturated {
		return fmt.Sprintf("%s was busy %s of the time: the line rate ruled", o.Link, percentOf(float64(o.Busy)))
	}
	if o.Link == "" {
		return "nothing was sent"
	}
	return fmt.Sprintf("the busiest link, %s, was busy %s of the time: the application posted no more", o.Link, percentOf(float64(o.Busy)))
}

// receiver says that a receiver rules, if one does.
func (o *Outside) receiver() string {
	// A link that is busy or paused all the time carries what the receiver takes.
	shared := o.PausedLink == o.Link && o.Busy < saturated && o.Busy+o.Paused >= saturated
	switch {
	case o.Paused >= 0.5 || shared:
		return fmt.Sprintf("the receiver's NIC paused %s %s of the time: the receiver ruled", o.PausedLink, percentOf(float64(o.Paused)))
	case o.Drops > 0:
		return fmt.Sprintf("%s's NIC dropped %d packets that its host could not take: the receiver ruled", o.DropsAt, o.Drops)
	}
	return ""
}

// acted reports whether an engine changed anything, as far as is known.
func (r *Ruling) acted() bool { return r.EngineCuts > 0 || r.EngineHeld > 0 }

// SameFigures are the groups of systems that gave the same figures, to the last digit.
func (r *Result) SameFigures() [][]string {
	var groups [][]string
	var first []*System
	for _, s := range r.Systems {
		i := slices.IndexFunc(first, func(other *System) bool { return other.sameFigures(s) })
		if i < 0 {
			first, groups = append(first, s), append(groups, []string{s.Name})
			continue
		}
		groups[i] = append(groups[i], s.Name)
	}
	return slices.DeleteFunc(groups, func(names []string) bool { return len(names) < 2 })
}

// sameFigures reports whether all that was measured at the ends and in the network is
// the same.
func (s *System) sameFigures(other *System) bool {
	same := func(a, b any) bool {
		return slices.EqualFunc(figuresOf(a), figuresOf(b), func(x, y figure) bool {
			return x.value == y.value || math.IsNaN(float64(x.value)) && math.IsNaN(float64(y.value))
		})
	}
	return s.Bytes > 0 && s.PacketHops == other.PacketHops && same(&s.Flows, &other.Flows) && same(&s.Network, &other.Network)
}

// rulingLines are the lines under a table: for each system what determined its rate
// if it was not the engine, and which systems gave the same results.
func (r *Result) rulingLines() []string {
	var all []string
	for _, s := range r.Systems {
		if s.RuledBy != "" {
			all = append(all, s.Name+": "+s.RuledBy)
		}
		if s.Unfinished != nil {
			all = append(all, s.Name+": "+s.Unfinished.String())
		}
	}
	for _, names := range r.SameFigures() {
		line := strings.Join(names, ", ") + ": the same to the last digit"
		if !slices.ContainsFunc(r.Systems, func(s *System) bool { return slices.Contains(names, s.Name) && (s.acted() || s.EngineIn == "") }) {
			line += ": no engine acted"
		}
		all = append(all, line)
	}
	return all
}

// modeOffload is the Mode of results whose engine ran in the NIC.
const modeOffload = "offload"

// place says where the system's engine ran. Results of earlier versions do not say it
// themselves.
func (s *System) place() string {
	switch {
	case s.EngineIn == EngineInNIC || s.EngineIn == "" && s.Engine != "none" && s.Mode == modeOffload:
		return "NIC"
	case s.EngineIn != "":
		return s.EngineIn
	case s.Engine == "none":
		return EngineNone
	}
	return EngineInHost
}
