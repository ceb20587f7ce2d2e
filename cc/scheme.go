package cc

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/internal/spelling"
	"github.com/sluice-rdma/sluice/telemetry"
)

// FieldError is the error of an engine's Validate and a Scheme's New for a field of its
// configuration: Key is its name in scenarios, Of the engine's.
type FieldError = field.Error

// Scheme describes an engine to scenarios and tools.
type Scheme struct {
	Name    string // as scenarios and flags spell it: "powertcp"
	Summary string // one line
	Source  string // the paper and section it follows

	// What the engine requires of acknowledgements besides round trips. A sender that
	// can't supply it refuses to run the engine, see Lacks.
	Telemetry telemetry.Kind
	ECN       bool
	EIN       bool
	// Circuit asks for a network with circuits that announces them, for Ack.Circuit.
	Circuit bool
	// CNP asks that a receiver answers marked packets with congestion
	// notification packets (IBA annex A17), for Engine.OnCNP. It implies ECN.
	CNP bool
	// Card says that the scheme is what a NIC does by itself: its own congestion control, or none. Only under such
	// ones scenarios have what the NIC's preset does about losses. One with CNP then knows losses as well, where the
	// NIC has slow restart: engines of the scheme implement Restarted, receivers answer gaps with notifications, and it runs
	// where no switch marks.
	Card bool
	// Classes is the number of the fabric's priorities that the engine's packets use, by
	// Control.Class and Grant.Class from 1 up, 0 if the flow's own alone.
	Classes int

	// Oracle says that a driver which knows the network sets the rates: engines of
	// the scheme implement Directed. Others refuse to run them.
	Oracle bool

	// DefaultConfig returns a pointer to a new configuration with the paper's
	// defaults, for a decoder to fill. New makes an engine from it.
	DefaultConfig func() any
	// Sets are configurations by name beside the defaults, see ConfigOf.
	Sets []Set
	New  func(config any, env Env) (Engine, error)
	// NewReceiver makes what decides at a host that receives what its senders may
	// send, one for all flows to it. It is nil where senders decide alone; else
	// engines of the scheme implement Granted.
	NewReceiver func(config any, env Env) (Receiver, error)
}

// Signals names the signals that acknowledgements carry besides round trips.
type Signals struct {
	Path, MaxDelay bool // Ack.Path, Ack.HasMaxDelay
	ECN, EIN       bool
}

// Lacks describes in words the signals that the scheme requires and that has does
// not include; it is empty if has includes all.
func (s *Scheme) Lacks(has Signals) string {
	switch {
	case s.Telemetry == telemetry.MaxDelay && !has.MaxDelay, s.Telemetry == telemetry.PerHop && !has.Path:
		return s.Telemetry.String() + " telemetry"
	case s.EIN && !has.EIN:
		return "explicit incast notifications"
	case s.ECN && !has.ECN:
		return "ECN marks"
	}
	return ""
}

var registry struct {
	sync.RWMutex
	schemes map[string]Scheme
}

// Register makes a scheme known by its name. C is its configuration; defaults
// returns the paper's, and make validates a configuration and makes an engine
// for one flow from it. It panics if the name is empty or taken. Engines call it
// when their package is initialised.
func Register[C any](s Scheme, defaults func() C, make func(C, Env) (Engine, error)) {
	s.DefaultConfig = func() any {
		c := defaults()
		return &c
	}
	s.New = func(config any, env Env) (Engine, error) {
		c, ok := config.(*C)
		if !ok {
			return nil, fmt.Errorf("cc: scheme %s takes a %T, not a %T", s.Name, c, config)
		}
		return make(*c, env)
	}
	register(s)
}

// RegisterReceiver is Register for a scheme whose receivers have a say; receiver
// makes a host's from the same configuration.
func RegisterReceiver[C any](s Scheme, defaults func() C, make func(C, Env) (Engine, error), receiver func(C, Env) (Receiver, error)) {
	s.NewReceiver = func(config any, env Env) (Receiver, error) {
		c, ok := config.(*C)
		if !ok {
			return nil, fmt.Errorf("cc: scheme %s takes a %T, not a %T", s.Name, c, config)
		}
		return receiver(*c, env)
	}
	Register(s, defaults, make)
}

func register(s Scheme) {
	registry.Lock()
	defer registry.Unlock()
	if _, taken := registry.schemes[s.Name]; taken || s.Name == "" {
		panic(fmt.Sprintf("cc: scheme name %q is empty or taken", s.Name))
	}
	if registry.schemes == nil {
		registry.schemes = map[string]Scheme{}
	}
	registry.schemes[s.Name] = s
}

// Lookup returns the scheme of that name.
func Lookup(name string) (Scheme, error) {
	registry.RLock()
	defer registry.RUnlock()
	s, ok := registry.schemes[name]
	if !ok {
		return Scheme{}, fmt.Errorf("no rate engine is called %q: %s", name, spelling.Mend(name, slices.Sorted(maps.Keys(registry.schemes))))
	}
	return s, nil
}

// Schemes returns all registered schemes by name.
func Schemes() []Scheme {
	registry.RLock()
	defer registry.RUnlock()
	var all []Scheme
	for _, name := range slices.Sorted(maps.Keys(registry.schemes)) {
		all = append(all, registry.schemes[name])
	}
	return all
}
