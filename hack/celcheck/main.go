// Admits or refuses writes of custom resources as kube-apiserver does, by its own code: pruning and defaults, the
// schema with its CEL rules, then ValidatingAdmissionPolicies. Nothing is stored.
//
// The first line of standard input has the definitions and policies; each line after it is a JSON array of writes, and
// is answered by a line with as many verdicts.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"log"
	"os"
	"runtime"
	"sync"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type setting struct {
	Definitions []apiextensions.CustomResourceDefinition          `json:"definitions"`
	Policies    []admissionregistration.ValidatingAdmissionPolicy `json:"policies"`
}

// A write replaces Old by New; no Old is a creation, no New a deletion.
type write struct {
	Old         map[string]any `json:"old"`
	New         map[string]any `json:"new"`
	Subresource string         `json:"subresource"`
	Speaker     speaker        `json:"speaker"`
}

// A verdict is 0 and the object as it would be stored, or the HTTP status of the refusal and its text.
type verdict struct {
	Status  int            `json:"status"`
	Message string         `json:"message,omitempty"`
	Object  map[string]any `json:"object,omitempty"`
}

func main() {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	answers := bufio.NewWriter(os.Stdout)
	judge, err := newJudge(readSetting(lines))
	if err != nil {
		log.Fatal(err)
	}
	reply(answers, map[string]bool{"ready": true})
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			log.Fatal(err)
		}
		var writes []write
		decode(line, &writes)
		reply(answers, judgeAll(judge, writes))
	}
}

func readSetting(lines *bufio.Reader) setting {
	line, err := lines.ReadBytes('\n')
	if err != nil {
		log.Fatalf("the first line has no definitions: %v", err)
	}
	var given setting
	if err := json.Unmarshal(line, &given); err != nil {
		log.Fatalf("the first line is not what it should be: %v", err)
	}
	return given
}

func judgeAll(judge *judge, writes []write) []verdict {
	verdicts := make([]verdict, len(writes))
	var working sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for worker := range workers {
		working.Go(func() {
			for i := worker; i < len(writes); i += workers {
				verdicts[i] = judge.of(writes[i])
			}
		})
	}
	working.Wait()
	return verdicts
}

// decode reads whole numbers as the int64 that unstructured objects have.
func decode(line []byte, writes *[]write) {
	if err := json.Unmarshal(line, writes); err != nil {
		log.Fatalf("a line is not a JSON array of writes: %v", err)
	}
	for _, one := range *writes {
		integers(one.Old)
		integers(one.New)
	}
}

func integers(object map[string]any) {
	for key, value := range object {
		object[key] = integer(value)
	}
}

func integer(value any) any {
	switch value := value.(type) {
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	case map[string]any:
		integers(value)
	case []any:
		for index, one := range value {
			value[index] = integer(one)
		}
	}
	return value
}

func reply(answers *bufio.Writer, answer any) {
	line, err := json.Marshal(answer)
	if err != nil {
		log.Fatal(err)
	}
	answers.Write(append(line, '\n'))
	if err := answers.Flush(); err != nil {
		log.Fatal(err)
	}
}
