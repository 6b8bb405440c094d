// Prints what kstatus makes of each object of a JSON array on standard input: one line with its status and message.
// Flux waits on this library, and so does everything else that is built on cli-utils.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	var objects []map[string]any
	decoder := json.NewDecoder(os.Stdin)
	if err := decoder.Decode(&objects); err != nil {
		log.Fatalf("standard input is not a JSON array of objects: %v", err)
	}
	for _, object := range objects {
		result, err := status.Compute(&unstructured.Unstructured{Object: integers(object)})
		if err != nil {
			log.Fatalf("kstatus cannot read an object: %v", err)
		}
		line, err := json.Marshal(map[string]string{"status": result.Status.String(), "message": result.Message})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(line))
	}
}

// integers makes of each whole number the int64 that unstructured objects have; plain JSON gives float64.
func integers(object map[string]any) map[string]any {
	for key, value := range object {
		object[key] = integer(value)
	}
	return object
}

func integer(value any) any {
	switch value := value.(type) {
	case float64:
		if whole := int64(value); float64(whole) == value {
			return whole
		}
	case map[string]any:
		return integers(value)
	case []any:
		for index, one := range value {
			value[index] = integer(one)
		}
	}
	return value
}
