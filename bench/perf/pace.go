package perf

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/spelling"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Pacing says what paces the requests of a device. The zero value is nothing.
type Pacing struct {
	// Engine is the name of a rate engine, as cc.Schemes has them; Settings are by the names
	// of its page.
	Engine   string   `flag:"cc" help:"let a rate <ENGINE> pace the requests"`
	Settings []string `flag:"cc-set" help:"a setting of the engine, <KEY=VALUE>; may be repeated"`
	// Rate is a fixed rate of payload for each queue pair, in place of an engine;
	// 0 for none.
	Rate units.Rate
	// Segment is 4 KiB to 64 KiB. 0 of Segment and BaseRTT takes paced.DefaultConfig's.
	Segment units.Bytes `flag:"segment" zero:"16KiB" help:"cut paced Writes and Reads into segments of <SIZE>"`
	BaseRTT units.Time  `flag:"base-rtt" zero:"20us" help:"round trip <TIME> of the idle network, for the engine"`
	// Bypass spares an engine that is cc.Bypassed the round trips without a queue
	// (paced.Config.Bypass). Who watches spares nothing: then Config.Unwatched is due, and
	// Record can't be.
	Bypass bool `flag:"bypass" help:"spare the engine round trips that show no queue, at line rate (timely)"`
	// Group has queue pairs share the engine (paced.Config.Group).
	Group paced.Grouping `flag:"group" default:"none" one:"none destination path port" help:"<KIND> of queue pairs that share one engine"`
	// Record, unless it is nil, takes what the engines get and answer.
	Record *replay.Recorder
}

// String says what it is in a word or two.
func (p Pacing) String() string {
	switch {
	case p.Rate > 0:
		return "fixed " + p.Rate.String()
	case p.Engine != "":
		return strings.Join(append([]string{p.Engine}, p.Settings...), " ")
	}
	return ""
}

// Wrap returns a device whose queue pairs are paced as p says; dev itself if p
// is nothing.
func (p Pacing) Wrap(dev verbs.Device) (verbs.Device, error) {
	c := paced.DefaultConfig()
	switch {
	case p.Rate < 0:
		return nil, fmt.Errorf("a rate of %v: it must be positive", p.Rate)
	case p.Rate > 0 && p.Engine != "":
		return nil, fmt.Errorf("a rate of %v and the engine %s: choose one", p.Rate, p.Engine)
	case p.Group != paced.Ungrouped && p.Engine == "":
		return nil, errors.New("a group of no engine: name one")
	case p.Bypass && p.Engine == "":
		return nil, errors.New("a bypass of no engine: name one")
	case p.Bypass && p.Record != nil:
		return nil, errors.New("a bypass beside a recording, which has every round trip: choose one")
	case p.Rate > 0:
		c.CatchUp = paced.FixedRateCatchUp
		c.Engine = func(cc.Env) (cc.Engine, error) {
			return cc.Fixed{Keep: cc.Control{Rate: p.Rate, Window: cc.Unlimited}}, nil
		}
	case p.Engine != "":
		scheme, err := cc.Lookup(p.Engine)
		if err != nil {
			return nil, err
		}
		c.Scheme = p.Engine
		if c.SchemeConfig, err = EngineConfig(&scheme, p.Settings); err != nil {
			return nil, err
		}
		if p.Bypass && !bypassed(&scheme, c.SchemeConfig) {
			return nil, fmt.Errorf("a bypass of %s, which sees every round trip: timely can be spared those without a queue", p.Engine)
		}
	case len(p.Settings) > 0:
		return nil, fmt.Errorf("the setting %q is for no engine: name one", p.Settings[0])
	default:
		return dev, nil
	}
	c.Bypass, c.Group = p.Bypass, p.Group
	if p.Segment > 0 {
		c.Segment = p.Segment
	}
	if p.BaseRTT > 0 {
		c.BaseRTT = p.BaseRTT
	}
	if p.Record != nil {
		record(p.Record, dev, &c, p)
	}
	return paced.Wrap(dev, c)
}

// bypassed reports whether a scheme's engines can be spared round trips. Where none can be
// made of the configuration, who makes them says why.
func bypassed(scheme *cc.Scheme, config any) bool {
	e, err := scheme.New(config, cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 10 * units.Microsecond, MTU: 4096})
	if err != nil {
		return true
	}
	_, can := e.(cc.Bypassed)
	return can
}

// EngineConfig returns a scheme's configuration, a pointer, with settings changed.
func EngineConfig(scheme *cc.Scheme, settings []string) (any, error) {
	config := scheme.DefaultConfig()
	for _, s := range settings {
		if err := set(config, s); err != nil {
			return nil, fmt.Errorf("%s: setting %q: %w", scheme.Name, s, err)
		}
	}
	return config, nil
}

// settingNames are the keys of a configuration.
func settingNames(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		switch tag := f.Tag.Get("yaml"); tag {
		case "", "-":
		case ",inline":
			names = append(names, settingNames(f.Type)...)
		default:
			names = append(names, tag)
		}
	}
	return names
}

// set changes one setting of an engine's configuration.
func set(config any, setting string) error {
	key, value, ok := strings.Cut(setting, "=")
	if !ok || key == "" {
		return fmt.Errorf("write it as KEY=VALUE")
	}
	if names := settingNames(reflect.TypeOf(config).Elem()); !slices.Contains(names, key) {
		near := ""
		if n := spelling.Nearest(key, names); n != "" {
			near = fmt.Sprintf(": is %q meant?", n)
		}
		if len(names) == 0 {
			return errors.New("there is no such key: the engine takes none")
		}
		return fmt.Errorf("there is no such key%s The keys are %s", cmp.Or(near, "."), strings.Join(names, ", "))
	}
	err := infile.YAML([]byte(key+": "+value), config, yaml.Strict())
	if err == nil {
		return nil
	}
	// Where in the text, and the text itself, the user knows: "[1:1] ...\n> 1 | ...".
	line, _, _ := strings.Cut(err.Error(), "\n")
	if _, rest, ok := strings.Cut(line, "] "); ok {
		line = rest
	}
	return errors.New(line)
}
