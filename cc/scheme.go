package cc

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-rdma/sluice/telemetry"
)

// Scheme describes an engine to scenarios and tools.
type Scheme struct {
	Name    string // as scenarios and flags spell it: "powertcp"
	Summary string // one line
	Source  string // the paper and section it follows

	// What the engine lives on. A driver that can't supply it refuses to run
	// the engine rather than starve it.
	Telemetry telemetry.Kind
	ECN       bool
	EIN       bool

	// DefaultConfig returns a pointer to a new configuration with the paper's
	// defaults, for a decoder to fill. New makes an engine from it.
	DefaultConfig func() any
	New           func(config any, env Env) (Engine, error)
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
		return Scheme{}, fmt.Errorf("no rate engine is called %q: take one of %s", name, strings.Join(slices.Sorted(maps.Keys(registry.schemes)), ", "))
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
