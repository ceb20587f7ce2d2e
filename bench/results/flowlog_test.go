package results

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

// A column is called the same in every format.
func TestFlowColumns(t *testing.T) {
	typ := reflect.TypeFor[FlowRecord]()
	for i := range typ.NumField() {
		f := typ.Field(i)
		inParquet, _, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		if f.Tag.Get("json") != flowColumns[i] || inParquet != flowColumns[i] {
			t.Errorf("column %d is %s in CSV, %s in JSON, %s in Parquet", i, flowColumns[i], f.Tag.Get("json"), inParquet)
		}
	}
}

func TestFlowLogErrors(t *testing.T) {
	if _, err := CreateFlowLog("flows.xlsx"); err == nil || !strings.Contains(err.Error(), ".parquet") {
		t.Errorf("error %v", err)
	}
}

// A record is the same in every format.
func TestFlowLogFormatsAgree(t *testing.T) {
	want := []FlowRecord{
		{
			Scenario: "s", System: "TIMELY", Flow: 7, Label: "late, by far", Src: "h0", Dst: "h1", Operation: "read", SizeBytes: 1 << 40, StartUs: 0.000001, Counted: true,
			FCTUs: new(12.5), IdealUs: new(10.0), Slowdown: new(1.25), DeliveredBytes: 1 << 40, Packets: 1<<63 + 1, ThroughputGbps: new(24.25),
			RTTSamples: 3, RTTAvgUs: new(5.5), RTTMaxUs: new(1e-6), Retransmissions: 2, Timeouts: 1,
		},
		{Scenario: "s", System: "PFC only", Flow: -2, Label: "endless", Src: "h2", Dst: "h3", Operation: "write", DeliveredBytes: 5, Packets: 1},
	}
	dir := t.TempDir()
	for _, ending := range []string{".csv", ".jsonl", ".parquet"} {
		l, err := CreateFlowLog(filepath.Join(dir, "flows"+ending))
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if err := l.Write(&want[i]); err != nil {
				t.Error(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Errorf("%s: %v", ending, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "flows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var inLines []FlowRecord
	for line := range strings.Lines(string(text)) {
		var r FlowRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		inLines = append(inLines, r)
	}
	if diff := cmp.Diff(want, inLines); diff != "" {
		t.Errorf("JSON lines: %s", diff)
	}
	inParquet, err := parquet.ReadFile[FlowRecord](filepath.Join(dir, "flows.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, inParquet); diff != "" {
		t.Errorf("Parquet: %s", diff)
	}
	text, err = os.ReadFile(filepath.Join(dir, "flows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	const inCSV = "scenario,system,flow,label,src,dst,operation,size_bytes,start_us,counted,fct_us,ideal_us,slowdown,delivered_bytes,packets,throughput_gbps,rtt_samples,rtt_avg_us,rtt_max_us,retransmissions,timeouts\n" +
		"s,TIMELY,7,\"late, by far\",h0,h1,read,1099511627776,1e-06,true,12.5,10,1.25,1099511627776,9223372036854775809,24.25,3,5.5,1e-06,2,1\n" +
		"s,PFC only,-2,endless,h2,h3,write,0,0,false,,,,5,1,,0,,,0,0\n"
	if diff := cmp.Diff(inCSV, string(text)); diff != "" {
		t.Errorf("CSV: %s", diff)
	}
}
