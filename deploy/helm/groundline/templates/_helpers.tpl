{{- /* The image of a service: (list $ "retriever"). */}}
{{- define "groundline.image" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 -}}
{{- $own := (index $root.Values.services $name).tag -}}
{{- printf "%s%s:%s" $root.Values.image.prefix $name (coalesce $own $root.Values.image.tag $root.Chart.AppVersion) -}}
{{- end }}

{{- define "groundline.databaseAddress" -}}
{{- required "components.postgres is false: name the addresses of your database in database.cidr, such as 10.1.2.3/32" .Values.database.cidr -}}
{{- end }}
