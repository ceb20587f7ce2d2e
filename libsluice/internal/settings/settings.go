package settings

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Settings is how queue pairs are paced. The tags are the keys of a file. A zero
// field takes the default of paced.DefaultConfig. It is comparable, so that
// queue pairs with equal settings can share a shim.
type Settings struct {
	CC       string // name of a rate engine, "" for none
	CCConfig string // its configuration, as YAML; "" for its defaults
	// Rate is what a queue pair sends at most, with an engine or without; 0 is the
	// line rate.
	Rate           units.Rate
	Segment        units.Bytes
	Batch          int
	MaxOutstanding units.Bytes
	LineRate       units.Rate
	BaseRTT        units.Time
	NICRate        units.Rate
	CalibrateEvery units.Time
	ProgressThread bool
}

// Config returns the shim's configuration, or the first thing that is wrong.
func (s Settings) Config() (paced.Config, error) {
	c := paced.DefaultConfig()
	if s.Segment != 0 {
		c.Segment = s.Segment
	}
	if s.Batch != 0 {
		c.Batch = s.Batch
	}
	if s.BaseRTT != 0 {
		c.BaseRTT = s.BaseRTT
	}
	if s.CalibrateEvery != 0 {
		c.CalibrateEvery = s.CalibrateEvery
	}
	c.MaxOutstanding, c.LineRate, c.NICRate = s.MaxOutstanding, s.LineRate, s.NICRate
	if s.Rate < 0 {
		return c, fmt.Errorf("rate is %v, expected one above 0, or 0 for the line rate", s.Rate)
	}
	if err := s.engine(&c); err != nil {
		return c, err
	}
	return c, c.Validate()
}

func (s Settings) engine(c *paced.Config) error {
	if s.CC == "" {
		if s.CCConfig != "" {
			return errors.New("cc_config requires cc, the engine that it configures")
		}
		if s.Rate > 0 {
			c.CatchUp = paced.FixedRateCatchUp
			c.Engine = func(cc.Env) (cc.Engine, error) {
				return cc.Fixed{Keep: cc.Control{Rate: s.Rate, Window: cc.Unlimited}}, nil
			}
		}
		return nil
	}
	scheme, err := cc.Lookup(s.CC)
	if err != nil {
		return err
	}
	if scheme.Telemetry != telemetry.None || scheme.EIN || scheme.NewReceiver != nil {
		return fmt.Errorf("engine %s requires telemetry of switches, which libibverbs does not report: take one that requires round trips only, such as timely", scheme.Name)
	}
	if scheme.Oracle {
		return fmt.Errorf("engine %s requires a simulation: take another, such as timely", scheme.Name)
	}
	config := scheme.DefaultConfig()
	if s.CCConfig != "" {
		if err := yaml.UnmarshalWithOptions([]byte(s.CCConfig), config, yaml.Strict()); err != nil {
			return fmt.Errorf("cc_config of %s: %s", s.CC, oneLine(err))
		}
	}
	if s.Rate == 0 {
		c.Scheme, c.SchemeConfig = s.CC, config
		return nil
	}
	c.Engine = func(env cc.Env) (cc.Engine, error) {
		e, err := scheme.New(config, env)
		if err != nil {
			return nil, err
		}
		return &capped{Engine: e, rate: s.Rate}, nil
	}
	return nil
}

// EngineName is how statistics call the engine that Config makes.
func (s Settings) EngineName() string {
	switch {
	case s.CC != "" && s.Rate > 0:
		return s.CC + ", capped"
	case s.CC == "" && s.Rate > 0:
		return "fixed rate"
	}
	return s.CC
}

// capped bounds the rate of an engine.
type capped struct {
	cc.Engine
	rate units.Rate
}

func (c *capped) bound(k cc.Control) cc.Control {
	k.Rate = min(k.Rate, c.rate)
	return k
}

func (c *capped) OnAck(a *cc.Ack) cc.Control          { return c.bound(c.Engine.OnAck(a)) }
func (c *capped) OnLoss(now units.Time) cc.Control    { return c.bound(c.Engine.OnLoss(now)) }
func (c *capped) OnTimeout(now units.Time) cc.Control { return c.bound(c.Engine.OnTimeout(now)) }
func (c *capped) OnCNP(now units.Time) cc.Control     { return c.bound(c.Engine.OnCNP(now)) }
func (c *capped) Control() cc.Control                 { return c.bound(c.Engine.Control()) }

// Inspect implements cc.Inspector.
func (c *capped) Inspect(visit func(name string, value float64)) {
	if e, ok := c.Engine.(cc.Inspector); ok {
		e.Inspect(visit)
	}
}

// Matches reports whether device is one of patterns, names with the wildcards of
// path.Match. No patterns match every device.
func Matches(patterns []string, device string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, device); ok {
			return true
		}
	}
	return len(patterns) == 0
}

// oneLine is the first line of a YAML error, without where in the text it is and
// without the text itself.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	if _, rest, ok := strings.Cut(line, "] "); ok {
		line = rest
	}
	return line
}
