package main

import (
	"context"
	"fmt"
	"net/http"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// strategy is what the registry of a custom resource, or of its status, does with a write.
type strategy interface {
	PrepareForUpdate(ctx context.Context, new, old runtime.Object)
	ValidateUpdate(ctx context.Context, new, old runtime.Object) field.ErrorList
}

type creation interface {
	PrepareForCreate(ctx context.Context, new runtime.Object)
	Validate(ctx context.Context, new runtime.Object) field.ErrorList
}

type kind struct {
	schema   *structuralschema.Structural
	create   creation
	update   map[string]strategy
	resource schema.GroupVersionResource
	kind     schema.GroupVersionKind
}

// newKind makes of the storage version of a definition what the API server makes of it.
func newKind(definition v1.CustomResourceDefinition) (*kind, error) {
	version := definition.Spec.Versions[0]
	internal := &apiextensions.CustomResourceValidation{}
	if err := v1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema, internal, nil); err != nil {
		return nil, err
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	structural = structural.DeepCopy()
	if err := defaulting.PruneDefaults(structural); err != nil {
		return nil, err
	}
	whole, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	statusSchema := internal.OpenAPIV3Schema.Properties["status"]
	status, _, err := validation.NewSchemaValidator(&statusSchema)
	if err != nil {
		return nil, err
	}
	of := schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind}
	plain := customresource.NewStrategy(
		nil, true, of, whole, status, structural, &apiextensions.CustomResourceSubresourceStatus{}, nil, version.SelectableFields,
	)
	return &kind{
		schema:   structural,
		create:   plain,
		update:   map[string]strategy{"": plain, "status": customresource.NewStatusStrategy(plain)},
		resource: of.GroupVersion().WithResource(definition.Spec.Names.Plural),
		kind:     of,
	}, nil
}

// coerce drops what the schema does not know and nulls, and fills in defaults, as decoding does.
func (k *kind) coerce(object map[string]any) *unstructured.Unstructured {
	if object == nil {
		return nil
	}
	pruning.PruneWithOptions(object, k.schema, true, structuralschema.UnknownFieldPathOptions{})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, k.schema)
	defaulting.Default(object, k.schema)
	return &unstructured.Unstructured{Object: object}
}

// validate says what the definition refuses; `object` is then as it would be stored.
func (k *kind) validate(subresource string, object, old *unstructured.Unstructured) *verdict {
	var errors field.ErrorList
	if old == nil {
		k.create.PrepareForCreate(context.Background(), object)
		errors = k.create.Validate(context.Background(), object)
	} else {
		strategy, ok := k.update[subresource]
		if !ok {
			return &verdict{Status: http.StatusNotFound, Message: fmt.Sprintf("there is no subresource %s", subresource)}
		}
		strategy.PrepareForUpdate(context.Background(), object, old)
		errors = strategy.ValidateUpdate(context.Background(), object, old)
	}
	if len(errors) > 0 {
		refusal := apierrors.NewInvalid(k.kind.GroupKind(), object.GetName(), errors)
		return &verdict{Status: int(refusal.Status().Code), Message: refusal.Error()}
	}
	return nil
}
