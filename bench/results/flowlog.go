package results

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/sluice-rdma/sluice/internal/outfile"
)

// FlowRecord is one flow's row in a flow log. Flows that were under
// way when the run ended, and flows without end, have a row too, written at the
// end. Fields that were not measured are null in JSON lines and Parquet, and
// empty in CSV.
type FlowRecord struct {
	Scenario string `json:"scenario" parquet:"scenario,dict"`
	System   string `json:"system" parquet:"system,dict"`
	// Flow counts the scenario's flows from 0 in the order of their starts. A
	// workload that keeps its connections has a row for each of these, without
	// end, counted down from -2, and a row with -1 for each task (a request, a block, a
	// burst, an iteration), from when it should have started.
	Flow      int64  `json:"flow" parquet:"flow"`
	Label     string `json:"label" parquet:"label,dict"`
	Src       string `json:"src" parquet:"src,dict"` // where the data come from
	Dst       string `json:"dst" parquet:"dst,dict"`
	Operation string `json:"operation" parquet:"operation,dict"` // write, read or send; what a task is
	// SizeBytes is 0 for a flow without end.
	SizeBytes int64   `json:"size_bytes" parquet:"size_bytes"`
	StartUs   float64 `json:"start_us" parquet:"start_us"`
	// Counted is whether the flow started after the warm-up, and so is in the
	// scenario's figures.
	Counted bool `json:"counted" parquet:"counted"`
	// FCTUs is from the start to the last completion, IdealUs what that takes on
	// an idle network, and Slowdown the one over the other; of flows that ended.
	FCTUs    *float64 `json:"fct_us" parquet:"fct_us,optional"`
	IdealUs  *float64 `json:"ideal_us" parquet:"ideal_us,optional"`
	Slowdown *float64 `json:"slowdown" parquet:"slowdown,optional"`

	DeliveredBytes int64    `json:"delivered_bytes" parquet:"delivered_bytes"` // payload, each byte once
	Packets        uint64   `json:"packets" parquet:"packets"`                 // that brought it
	ThroughputGbps *float64 `json:"throughput_gbps" parquet:"throughput_gbps,optional"`

	RTTSamples uint64   `json:"rtt_samples" parquet:"rtt_samples"`
	RTTAvgUs   *float64 `json:"rtt_avg_us" parquet:"rtt_avg_us,optional"`
	RTTMaxUs   *float64 `json:"rtt_max_us" parquet:"rtt_max_us,optional"`

	Retransmissions uint64 `json:"retransmissions" parquet:"retransmissions"`
	Timeouts        uint64 `json:"timeouts" parquet:"timeouts"`
}

// flowColumns are the names of a FlowRecord's fields, in order.
var flowColumns = []string{
	"scenario", "system", "flow", "label", "src", "dst", "operation", "size_bytes", "start_us", "counted",
	"fct_us", "ideal_us", "slowdown", "delivered_bytes", "packets", "throughput_gbps",
	"rtt_samples", "rtt_avg_us", "rtt_max_us", "retransmissions", "timeouts",
}

// FlowLog writes FlowRecords to a file as they come, which has its name from Close on. It
// holds a bounded buffer, whatever the number of flows. Make one with CreateFlowLog.
type FlowLog struct {
	file  *outfile.File
	buf   *bufio.Writer
	write func(*FlowRecord) error
	end   func() error
	err   error // of the first Write that failed
}

// parquetRows is the number of rows of a row group: as many as a FlowLog holds in
// memory.
const parquetRows = 1 << 15

// CreateFlowLog makes a file for flow records. The ending of its name chooses the
// format: .csv, .jsonl or .parquet.
func CreateFlowLog(path string) (*FlowLog, error) {
	make, ok := map[string]func(*FlowLog){".csv": (*FlowLog).csv, ".jsonl": (*FlowLog).jsonl, ".parquet": (*FlowLog).parquet}[filepath.Ext(path)]
	if !ok {
		return nil, fmt.Errorf("%s: the ending of the name is the format: take .csv, .jsonl or .parquet", path)
	}
	f, err := outfile.Create(path)
	if err != nil {
		return nil, err
	}
	l := &FlowLog{file: f, buf: bufio.NewWriterSize(f, 1<<16), end: func() error { return nil }}
	make(l)
	return l, nil
}

// Write appends a record. It keeps no reference to r.
func (l *FlowLog) Write(r *FlowRecord) error {
	if l.err == nil {
		l.err = l.write(r)
	}
	return l.err
}

// Close finishes the file. Errors of a write may show only here. After a Write that
// failed it leaves an older file as it was, and has no news.
func (l *FlowLog) Close() error {
	if l.err != nil {
		l.Abort()
		return nil
	}
	err := l.end()
	if err == nil {
		err = l.buf.Flush()
	}
	if err != nil {
		l.Abort()
		return err
	}
	return l.file.Commit()
}

// Abort drops the file, unless Close has ended it.
func (l *FlowLog) Abort() { l.file.Abort() }

func (l *FlowLog) jsonl() {
	e := json.NewEncoder(l.buf)
	e.SetEscapeHTML(false)
	l.write = func(r *FlowRecord) error { return e.Encode(r) }
}

func (l *FlowLog) csv() {
	w := csv.NewWriter(l.buf)
	cells := make([]string, 0, len(flowColumns))
	header := w.Write(flowColumns)
	l.write = func(r *FlowRecord) error {
		if header != nil {
			return header
		}
		cells = r.cells(cells[:0])
		return w.Write(cells)
	}
	l.end = func() error {
		w.Flush()
		return w.Error()
	}
}

// cells appends the fields as text, by flowColumns.
func (r *FlowRecord) cells(to []string) []string {
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	maybe := func(x *float64) string {
		if x == nil {
			return ""
		}
		return number(*x)
	}
	count := func(x uint64) string { return strconv.FormatUint(x, 10) }
	return append(to,
		r.Scenario, r.System, strconv.FormatInt(r.Flow, 10), r.Label, r.Src, r.Dst, r.Operation,
		strconv.FormatInt(r.SizeBytes, 10), number(r.StartUs), strconv.FormatBool(r.Counted),
		maybe(r.FCTUs), maybe(r.IdealUs), maybe(r.Slowdown),
		strconv.FormatInt(r.DeliveredBytes, 10), count(r.Packets), maybe(r.ThroughputGbps),
		count(r.RTTSamples), maybe(r.RTTAvgUs), maybe(r.RTTMaxUs), count(r.Retransmissions), count(r.Timeouts))
}

func (l *FlowLog) parquet() {
	w := parquet.NewGenericWriter[FlowRecord](l.buf, parquet.Compression(&parquet.Snappy), parquet.MaxRowsPerRowGroup(parquetRows))
	var row [1]FlowRecord
	l.write = func(r *FlowRecord) error {
		row[0] = *r
		_, err := w.Write(row[:])
		return err
	}
	l.end = w.Close
}
