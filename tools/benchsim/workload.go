package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/sluice-rdma/sluice/scenario"
)

// files holds the connection matrices of the workloads that have one.
//
//go:embed workloads
var files embed.FS

// benchmark is a fat tree with 100 Gbps links of 1 us, and its flows.
type benchmark struct {
	Name     string
	K        int    // of the fat tree
	Flows    string // YAML of a workload
	Duration string
}

// standard are the workloads in the order of the table.
var standard = []benchmark{
	{Name: "incast10x10", K: 4, Flows: matrix},
	{Name: "incast255", K: 12, Flows: matrix},
	{Name: "perm128", K: 8, Flows: matrix},
	{Name: "perm1024", K: 16, Flows: "{kind: permutation, size: 2MB}"},
	{Name: "perm8192", K: 32, Flows: "{kind: permutation, size: 500kB}"},
	{Name: "websearch256", K: 8, Flows: "{kind: poisson, sizes: websearch, load: 0.6, stop: 1ms}", Duration: "1s"},
}

// matrix is the workload of a connection matrix.
const matrix = "{kind: trace, format: htsim, file: %q}"

// text is a scenario. The thresholds of PFC are htsim's of 160 and 200 packets; the
// buffer is so large that they decide. An acknowledgement answers each packet.
var text = template.Must(template.New("").Parse(`
name: {{.Name}}
duration: {{or .Duration "1s"}}
topology:
  {kind: fat-tree, k: {{.K}}, {{if eq .Name "websearch256"}}oversubscription: 2, {{end}}host_rate: 100Gbps, host_delay: 1us, trunk_delay: 1us}
fabric: {switch_latency: 0s, buffer: 1GiB, pfc: {enabled: true, xoff: {{.XOFF}}B, xon: {{.XON}}B}}
nic: {model: reduced, mtu: {{.MTU}}, ack_every: 1, host_start: 0s, host_send: 0s, host_receive: 0s, completion: 0s}
systems:
  - {engine: {{.Engine}}}
workloads:
  - {{.Flows}}
`))

// options are what a run is told beside its workload.
type options struct {
	Engine string
	MTU    int
	File   string // a connection matrix instead of the workload's flows
	// Workers run the network in windows; 0 runs it undivided, by the engine.
	Workers int
}

// load makes the scenario of a workload.
func (w benchmark) load(opt options) (*scenario.Scenario, error) {
	if w.Flows == matrix || opt.File != "" {
		file := opt.File
		if file == "" {
			dir, err := os.MkdirTemp("", "benchsim")
			if err != nil {
				return nil, err
			}
			defer func() { _ = os.RemoveAll(dir) }()
			src, err := files.ReadFile("workloads/" + w.Name + ".cm")
			if err != nil {
				return nil, err
			}
			file = filepath.Join(dir, w.Name+".cm")
			if err := os.WriteFile(file, src, 0o600); err != nil {
				return nil, err
			}
		}
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		w.Flows = fmt.Sprintf(matrix, path)
	}
	frame := opt.MTU + 62
	var b bytes.Buffer
	if err := text.Execute(&b, struct {
		benchmark
		options
		XOFF, XON int
	}{w, opt, 200 * frame, 160 * frame}); err != nil {
		return nil, err
	}
	return scenario.Parse(w.Name+".yaml", b.Bytes())
}
