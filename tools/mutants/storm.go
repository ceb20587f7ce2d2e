package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// storms judges by storms (verbs/storm): over each provider that runs the mutant's code,
// in turn, until a seed fails.
type storms struct {
	w     *workspace
	seeds int                      // over each provider
	limit time.Duration            // of the seeds of one provider; 0 for what calibrate finds
	own   map[string]time.Duration // by arguments, if limit is 0
}

// over are the storms that run the code of each group.
var over = map[string][]string{
	"transport": {"-provider soft", "-provider sim", "-provider soft -shim timely"},
	"endpoint":  {"-provider soft", "-provider soft -shim timely"},
	"shim":      {"-provider soft -shim timely", "-provider sim -shim timely"},
	"shards":    {"-provider soft -shim timely", "-provider sim -shim timely"},
	"cm":        {"-provider soft", "-provider soft -shim timely"},
}

// calibrate makes sure that the storms find nothing in the tree as it is, and bounds
// those of mutants by ten times what they take.
func (s *storms) calibrate(ctx context.Context, groups []string) error {
	s.own = map[string]time.Duration{}
	if err := s.build(ctx, nil); err != nil {
		return err
	}
	for _, g := range groups {
		for _, args := range over[g] {
			if s.own[args] != 0 {
				continue
			}
			s.own[args] = time.Hour
			start := time.Now()
			v, err := s.storm(ctx, args)
			if err != nil {
				return err
			}
			if v.Found {
				return fmt.Errorf("storm %s finds a fault in the tree as it is: after %d seeds it %s: %s", args, v.Seeds, v.How, v.What)
			}
			s.own[args] = max(2*time.Minute, 10*time.Since(start).Round(time.Second))
		}
	}
	return nil
}

func (s *storms) program() string { return filepath.Join(s.w.dir, "seeds") }

func (s *storms) build(ctx context.Context, m *Mutant) error {
	return s.w.build(ctx, m, "build", "-ldflags=-s -w", "-o", s.program(), "./tools/mutants/seeds")
}

func (s *storms) judge(ctx context.Context, m *Mutant, over []string) (*Verdict, error) {
	start := time.Now()
	if err := s.build(ctx, m); err != nil {
		return nil, err
	}
	v := &Verdict{}
	for _, args := range over {
		var err error
		if v, err = s.storm(ctx, args); err != nil {
			return nil, err
		}
		if v.Found {
			break
		}
	}
	v.Seconds = time.Since(start).Seconds()
	return v, nil
}

// storm runs the seeds over one provider.
func (s *storms) storm(ctx context.Context, args string) (*Verdict, error) {
	limit := s.limit
	if limit == 0 {
		limit = s.own[args]
	}
	list := append(strings.Fields(args), "-seeds", strconv.Itoa(s.seeds))
	how, out, err := run(ctx, s.w.root, limit, s.program(), list...)
	if err != nil {
		return nil, err
	}
	if how != passed && how != failed {
		return &Verdict{Found: true, By: args, How: how.String()}, nil
	}
	var o struct { // as tools/mutants/seeds prints it
		Seeds  int    `json:"seeds"`
		Failed string `json:"failed"`
	}
	if err := json.Unmarshal(out, &o); err != nil {
		return nil, fmt.Errorf("storm %s: %s", args, out)
	}
	if o.Failed == "" {
		return &Verdict{}, nil
	}
	return &Verdict{Found: true, By: args, How: failed.String(), What: o.Failed, Seeds: o.Seeds}, nil
}
